"""The views of the explorer, a module each, which is imported when its view is first opened."""
