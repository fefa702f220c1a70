"""What the views show, read from the record and its mirror, without a web page."""
