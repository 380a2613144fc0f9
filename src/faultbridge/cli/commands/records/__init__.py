"""Commands for raw records that Faultbridge receives, and for the timeline entries that it writes."""
