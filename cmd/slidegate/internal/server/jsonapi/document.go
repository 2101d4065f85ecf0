package jsonapi

import (
	_ "embed"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

// document is the OpenAPI document of all that an API serves, and others the paths that listeners of the service have besides. A tag
// says which listener has a path: client, admin, or for the client's where Envoy's rate limit service is, envoy, and rules where
// that has rules.
var (
	//go:embed openapi.json
	document []byte
	//go:embed others.json
	others []byte
)

// page is the document of one listener.
type page struct {
	text  []byte
	paths []string
}

// pageOf returns the document with the paths that have one of the tags, and no others: a listener must not promise what another one has.
func pageOf(tags ...string) *page {
	var all map[string]json.RawMessage
	var more map[string]map[string]json.RawMessage
	mustRead(document, &all)
	mustRead(others, &more)
	var paths map[string]map[string]json.RawMessage
	mustRead(all["paths"], &paths)
	maps.Copy(paths, more)
	maps.DeleteFunc(paths, func(_ string, operations map[string]json.RawMessage) bool {
		for _, text := range operations {
			var operation struct{ Tags []string }
			mustRead(text, &operation)
			if slices.ContainsFunc(operation.Tags, func(tag string) bool { return slices.Contains(tags, tag) }) {
				return false
			}
		}
		return true
	})
	text, err := json.Marshal(paths)
	if err == nil {
		all["paths"] = text
		text, err = json.MarshalIndent(all, "", "  ")
	}
	if err != nil {
		panic(err) // it was read a moment ago
	}
	return &page{text: append(text, '\n'), paths: slices.Sorted(maps.Keys(paths))}
}

// mustRead reads a part of the documents, which are the program's own.
func mustRead(text []byte, into any) {
	if err := json.Unmarshal(text, into); err != nil {
		panic(err)
	}
}

// serve serves GET /v1/openapi.json.
func (p *page) serve(_ *API, w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(p.text))}
	_, _ = w.Write(p.text) // a client that has gone away is not worth an error
}
