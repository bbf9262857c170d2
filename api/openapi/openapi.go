package openapi

import _ "embed"

//go:embed openapi.yaml
var text string

// YAML returns the description, OpenAPI 3.1 in YAML.
func YAML() string { return text }
