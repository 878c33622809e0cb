//! Load generators, measurement, statistics, reports and peers.
