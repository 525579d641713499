"""Models from other formats: one subpackage per format."""
