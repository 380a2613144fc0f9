"""What Faultbridge is about, as frozen values and pure rules; imports the standard library only."""
