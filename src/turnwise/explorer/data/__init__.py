"""What the views show, read from the record and its mirror. No web page is needed for any of it."""
