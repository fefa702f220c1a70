"""What every part uses: bounded input, text without tricks, clocks, locations, tables for notebooks."""
