"""The passes, one file each, by the level they work on; `registry` names them, `pipelines` alone orders them."""
