package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("slidegate.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("slidegate.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// asJSON returns a file of YAML as a validator takes it.
func asJSON(text []byte) (any, error) {
	converted, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(converted))
}

func TestSchemaTakesGoodFiles(t *testing.T) {
	schema := compileSchema(t)
	files := goodFiles(t)
	files["aliases"] = []byte("policies:\n  a: &a\n    key: &k user\n    limits: &l [5/1m]\n  b: *a\n  c: {key: *k, limits: *l}\n")
	for name, text := range files {
		if _, err := Parse(name, text); err != nil {
			t.Errorf("%v", err)
		}
		document, err := asJSON(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := schema.Validate(document); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSchemaTakesWhatFormatWrites(t *testing.T) {
	schema := compileSchema(t)
	rapid.Check(t, func(t *rapid.T) {
		text := Format(drawFile(t))
		document, err := asJSON(text)
		if err != nil {
			t.Skip("another reader of YAML does not take it: ", err)
		}
		if err := schema.Validate(document); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	})
}

// TestSchemaRefusesUnknownFields takes all the bad files of the other tests that have a field which there is not.
func TestSchemaRefusesUnknownFields(t *testing.T) {
	schema := compileSchema(t)
	refused := 0
	for _, bad := range slices.Concat(badFiles, badServiceFiles) {
		if !regexp.MustCompile(`is not a field of (the file|a policy|a limit|an override)`).MatchString(bad.want) {
			continue
		}
		document, err := asJSON([]byte(bad.text))
		if err != nil {
			continue // an alias of itself
		}
		if schema.Validate(document) == nil {
			t.Errorf("%s: the schema takes\n%s", bad.name, bad.text)
		}
		refused++
	}
	if refused < 7 {
		t.Errorf("only %d files have unknown fields", refused)
	}
}

// TestSchemaRefuses has mistakes of other kinds that an editor should underline.
func TestSchemaRefuses(t *testing.T) {
	schema := compileSchema(t)
	for _, text := range []string{
		"{}", "policies: {}", "policies: {a: {}}", "policies: {a: {limits: []}}", "policies: {a b: {limits: [1/s]}}",
		top("failure: maybe"), top("store: mysql://h"), top("store_timeout: 100"), top("trusted_proxies: [private]"),
		below("    shadow: maybe"), below("    allow: [alice]"), below("    match: POST"), below("    cost: lots"),
		below("    overrides: [{key: a}]"), below("    overrides: [{key: a, keys: b*, unlimited: true}]"),
		below("    overrides: [{key: a, limits: [1/s], unlimited: true}]"), below("    overrides: [{keys: a, unlimited: true}]"),
		below("    overrides: [{key: a*, unlimited: true}]"), below("    candidate: []"),
		"policies: {a: {limits: [{quota: 5}]}}", "policies: {a: {limits: [{quota: 5, window: 1m, anchor: epoch}]}}",
	} {
		document, err := asJSON([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if schema.Validate(document) == nil {
			t.Errorf("the schema takes\n%s", text)
		}
		if _, err := Parse("f", []byte(text)); err == nil {
			t.Errorf("Parse takes\n%s", text)
		}
	}
}

// TestSchemaHasAllFields fails when a field is added to the reader or to the schema alone.
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
	limit := document.Definitions["limit"].AnyOf
	for _, test := range []struct {
		what   string
		fields []string
		schema object
	}{
		{"the file", fileFields, document.object},
		{"a policy", policyFields, document.Definitions["policy"]},
		{"an override", overrideFields, document.Definitions["override"]},
		{"a limit", limitFields, limit[len(limit)-1]},
	} {
		got, want := slices.Sorted(maps.Keys(test.schema.Properties)), slices.Sorted(slices.Values(test.fields))
		if !slices.Equal(got, want) {
			t.Errorf("the schema of %s has %q, and the reader %q", test.what, got, want)
		}
	}
}

func TestSchemaIsACopy(t *testing.T) {
	Schema()[0] = 'x'
	if Schema()[0] != '{' {
		t.Error("who changes the schema changes it for all")
	}
}
