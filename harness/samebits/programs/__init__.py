"""From a declaration to traced and compiled programs."""
