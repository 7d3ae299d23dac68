//! Tidegate in a cluster.
