package jsonapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestSchemasOfTheDocument compiles every schema of the API's document with a widely used validator. The tests of the API check all
// responses against the document with their own validator.
func TestSchemasOfTheDocument(t *testing.T) {
	text, err := os.ReadFile("../../listener/jsonapi/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("openapi.json", document); err != nil {
		t.Fatal(err)
	}
	var pointers []string
	findSchemas(document, "", &pointers)
	if len(pointers) < 50 {
		t.Errorf("found only %d schemas in the document", len(pointers))
	}
	for _, pointer := range pointers {
		if _, err := compiler.Compile("openapi.json#" + pointer); err != nil {
			t.Errorf("the schema at %s does not compile: %v", pointer, err)
		}
	}
	problem, err := compiler.Compile("openapi.json#/components/schemas/Problem")
	if err != nil {
		t.Fatal(err)
	}
	for body, good := range map[string]bool{
		`{"type":"about:blank","title":"Bad Request","status":400,"detail":"jsonapi: cost: must be 0 or more"}`: true,
		`{"type":"about:blank","title":"Bad Request","status":"400","detail":""}`:                               false,
		`{"title":"Bad Request","status":400}`:                                                                  false,
	} {
		var value any
		if err := json.Unmarshal([]byte(body), &value); err != nil {
			t.Fatal(err)
		}
		if err := problem.Validate(value); (err == nil) != good {
			t.Errorf("%s: got error %v, want an error: %v", body, err, !good)
		}
	}
}

// findSchemas collects the JSON pointers of all schemas in a part of the document.
func findSchemas(part any, at string, pointers *[]string) {
	switch part := part.(type) {
	case map[string]any:
		for name, inner := range part {
			pointer := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
			if name == "schema" || at == "/components/schemas" {
				*pointers = append(*pointers, pointer)
				continue
			}
			findSchemas(inner, pointer, pointers)
		}
	case []any:
		for i, inner := range part {
			findSchemas(inner, fmt.Sprint(at, "/", i), pointers)
		}
	}
}
