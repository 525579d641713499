"""What people look at: the memory plan as tables and as a picture."""
