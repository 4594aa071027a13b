"""Components of this host: brought to the version, files and units that the Machine assigns."""
