package jsonapi

import (
	_ "embed"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// document is the OpenAPI document of everything that an API serves, and others holds the other paths of the service's
// listeners. The tag of a path names the listeners that serve it: client, admin, envoy (client listeners with Envoy's
// rate limit service), or rules (the same with rules).
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
	allow map[string]string // the methods of each path, as in the header Allow
}

// pageOf returns the document with only the paths that have one of the tags: a listener must not document the paths of
// another.
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
		panic(err) // it was just decoded
	}
	allow := map[string]string{}
	for path, operations := range paths {
		methods := slices.Sorted(maps.Keys(operations))
		if at := slices.Index(methods, "get"); at >= 0 {
			methods = slices.Insert(methods, at+1, "head")
		}
		allow[path] = strings.ToUpper(strings.Join(methods, ", "))
	}
	return &page{append(text, '\n'), slices.Sorted(maps.Keys(paths)), allow}
}

// mustRead decodes a part of the embedded documents.
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
	_, _ = w.Write(p.text) // the client may have disconnected
}
