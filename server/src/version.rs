//! The version of Redis that Tarn is compatible with.

/// The version of Redis whose replies the server gives.
pub(crate) const REDIS_VERSION: &str = "7.0.15";
