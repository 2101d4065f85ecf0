package config

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
)

// TestSchemaHasAllFields fails if a field is added only to the reader or only to the schema.
func TestSchemaHasAllFields(t *testing.T) {
	type object struct {
		Properties map[string]any `json:"properties"`
		AnyOf      []object       `json:"anyOf"`
	}
	var document struct {
		object
		Definitions map[string]object `json:"$defs"`
	}
	if err := json.Unmarshal(Schema(), &document); err != nil {
		t.Fatal(err)
	}
	var top struct {
		Properties map[string]object `json:"properties"`
	}
	if err := json.Unmarshal(Schema(), &top); err != nil {
		t.Fatal(err)
	}
	limit := document.Definitions["limit"].AnyOf
	for _, test := range []struct {
		what   string
		fields []string
		schema object
	}{
		{"the file", fileFields, document.object},
		{"a policy", policyFields, document.Definitions["policy"]},
		{"a pattern", routeFields, document.Definitions["route"]},
		{"an override", overrideFields, document.Definitions["override"]},
		{"a refusal", refusalFields, document.Definitions["refusal"]},
		{"jwt", jwtFields, top.Properties["jwt"]},
		{"a plan", planFields, document.Definitions["plan"]},
		{"a limit", limitFields, limit[len(limit)-1]},
	} {
		got, want := slices.Sorted(maps.Keys(test.schema.Properties)), slices.Sorted(slices.Values(test.fields))
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q in the schema and %q in the reader, want the same", test.what, got, want)
		}
	}
}

func TestSchemaIsACopy(t *testing.T) {
	Schema()[0] = 'x'
	if Schema()[0] != '{' {
		t.Error("changing the returned schema changes the package's")
	}
}
