"""One module for each data set format."""
