// Package facts is what engines tell about themselves: models, server info,
// load and metrics, each in its engine's words. It is pure.
package facts
