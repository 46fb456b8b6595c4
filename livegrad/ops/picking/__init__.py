"""Elements picked and written by indices and masks."""
