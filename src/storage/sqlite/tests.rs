//! Tests of the SQLite store that need SQLite: damage, full disks, several connections.
