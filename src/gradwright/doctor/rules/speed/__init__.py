"""Rules GW3xx: what makes a forward or backward slow."""
