"""Records of what was decoded, and every metric computed from them, each defined once."""
