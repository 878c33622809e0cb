//! Templates, static files, content cache and live insertion points.
