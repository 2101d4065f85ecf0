package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/config"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.Schema()))
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

// asJSON converts a YAML file for the validator.
func asJSON(text []byte) (any, error) {
	converted, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(converted))
}

// goodFiles returns the files that the tests of config read.
func goodFiles(t testing.TB) map[string][]byte {
	t.Helper()
	if err := os.Setenv("SLIDEGATE_TEST_PASSWORD", "hunter2"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Unsetenv("SLIDEGATE_TEST_PASSWORD") })
	paths, err := filepath.Glob(filepath.Join("..", "..", "config", "testdata", "*.yaml"))
	if err != nil || len(paths) < 3 {
		t.Fatalf("the files in testdata of config: %q, %v", paths, err)
	}
	files := map[string][]byte{}
	for _, path := range paths {
		if files[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// top returns a file with lines at its top; below returns one with lines in a policy.
func top(lines string) string {
	return lines + "\npolicies: {api: {limits: [1/s]}, login: {limits: [1/s]}}\n"
}
func below(lines string) string { return "policies:\n  a:\n    limits: [1/s]\n" + lines + "\n" }

func TestSchemaAcceptsGoodFiles(t *testing.T) {
	schema := compileSchema(t)
	files := goodFiles(t)
	files["keys"] = []byte(below("    key: [header:X-Api-Key, '{user} {path}', 'a{{b}}{address}']"))
	files["plans"] = []byte("jwt: {verified: true}\n" + below("    match: [/api/, {path: POST /api/search, cost: 10}, {path: /up, cost: 'header:X-Cost'}]\n"+
		"    plan: claim:account.plan\n    plans: {pro: {limits: [9/1s]}, 'team-*': {unlimited: true}}\n    key: ['{claim:sub}', user]"))
	files["aliases"] = []byte("policies:\n  a: &a\n    key: &k user\n    limits: &l [5/1m]\n  b: *a\n  c: {key: *k, limits: *l}\n")
	for name, text := range files {
		if _, err := config.Parse(name, text); err != nil {
			t.Errorf("%s is rejected: %v", name, err)
		}
		document, err := asJSON(text)
		if err != nil {
			t.Fatalf("%s: invalid YAML: %v", name, err)
		}
		if err := schema.Validate(document); err != nil {
			t.Errorf("%s is rejected by the schema: %v", name, err)
		}
	}
}

func TestSchemaAcceptsOutputOfFormat(t *testing.T) {
	schema := compileSchema(t)
	rapid.Check(t, func(t *rapid.T) {
		text := config.Format(drawFile(t))
		document, err := asJSON(text)
		if err != nil {
			t.Skip("the other YAML parser rejects it: ", err)
		}
		if err := schema.Validate(document); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	})
}

func TestSchemaRejectsUnknownFields(t *testing.T) {
	schema := compileSchema(t)
	for _, text := range []string{
		"policy: {a: {limits: [1/s]}}", top("limits: [1/s]"), top("stores: 'memory:'"), top("Failure: open"),
		below("    limit: [1/s]"), below("    keys: user"), below("    store: 'memory:'"), below("    Key: user"),
		"policies: {a: {limits: [{quotta: 5, window: 1m}]}}", "policies: {a: {limits: [{quota: 5, window: 1m, count-refused: true}]}}",
		"policies: {a: {limits: [{quota: 5, window: 1m, colour: red}]}}",
		below("    overrides: [{key: a, limit: [1/s]}]"), below("    overrides: [{kye: a, unlimited: true}]"),
		below("    overrides: [{key: a, unlimitted: true}]"), below("    match: [{path: /, price: 5}]"),
		below("    plan: user\n    plans: {pro: {limit: [1/s]}}"), top("jwt: {verified: true, keyz: /k}"),
	} {
		if _, err := config.Parse("f", []byte(text)); err == nil || !strings.Contains(err.Error(), "is not a field of ") {
			t.Errorf("got error %v in\n%s", err, text)
		}
		document, err := asJSON([]byte(text))
		if err != nil {
			t.Fatalf("%s: invalid YAML: %v", text, err)
		}
		if schema.Validate(document) == nil {
			t.Errorf("the schema accepts\n%s", text)
		}
	}
}

// The schema rejects patterns in another syntax, and accepts every pattern that Parse accepts.
func TestSchemaOfMatch(t *testing.T) {
	schema := compileSchema(t)
	valid := func(pattern string) bool {
		policy := map[string]any{"match": pattern, "limits": []any{"1/s"}}
		return schema.Validate(map[string]any{"policies": map[string]any{"a": policy}}) == nil
	}
	for _, pattern := range []string{
		"/api/*", "/api/**", "/*", "*", "^/foo/.*$", "/foo/.*", "/foo/.+", "/foo/+", "/(a|b)", "/a|b", "/foo$", "/[0-9]+", "/\\d", "/x?", "/x?a=b",
		"/x#y", "/users/:id", "/a/-:id", "/users/<id>", "/users/{id:[0-9]+}", "/files/{*path}", "/{id}.json", "/v{n}/x", "*.example.com/", ".example.com/",
		"https://shop.example/login", "post /login", "GET,POST /x", "~ /x", "login", "api/users", "shop.example:80/", "/a b", "/login ", " /login",
		"/100%", "/a//b", "bücher.example/",
	} {
		if valid(pattern) {
			t.Errorf("the schema accepts the pattern %q, want it rejected", pattern)
		}
		if config.CheckMatch(pattern) == nil {
			t.Errorf("CheckMatch accepts the pattern %q, want it rejected", pattern)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		pieces := []string{
			"/", "/", "/", "a", "Z", "_", ".", "-", "+", ":", "%2A", "é", "{id}", "{rest...}", "{$}", "GET ", "PURGE ", "h.example", "localhost",
			"[::1]", "~", "=", ",", "@", "!", "'", "&", ";",
		}
		pattern := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 8).Draw(t, "pieces"), "")
		if config.CheckMatch(pattern) == nil && !valid(pattern) {
			t.Fatalf("Parse accepts the pattern %q, and the schema rejects it", pattern)
		}
	})
}

// TestSchemaRejects has other mistakes that the schema should reject, so that editors underline them.
func TestSchemaRejects(t *testing.T) {
	schema := compileSchema(t)
	for _, text := range []string{
		"{}", "policies: {}", "policies: {a: {}}", "policies: {a: {limits: []}}", "policies: {a b: {limits: [1/s]}}",
		top("failure: maybe"), top("store: mysql://h"), top("store_timeout: 100"), top("trusted_proxies: [public]"),
		below("    key: '{headers:X-Api-Key}'"), below("    key: X-Api-Key"), below("    key: 'all'"), below("    key: []"), below("    key: '{header:}'"),
		below("    key: [user, '{adress}']"), below("    match: /api/*"),
		below("    shadow: maybe"), below("    allow: [alice]"), below("    match: POST"), below("    cost: lots"),
		below("    overrides: [{key: a}]"), below("    overrides: [{key: a, keys: b*, unlimited: true}]"),
		below("    overrides: [{key: a, limits: [1/s], unlimited: true}]"), below("    overrides: [{keys: a, unlimited: true}]"),
		below("    overrides: [{key: a*, unlimited: true}]"),
		"policies: {a: {limits: [{quota: 5}]}}", "policies: {a: {limits: [{quota: 5, window: 1m, anchor: epoch}]}}",
	} {
		document, err := asJSON([]byte(text))
		if err != nil {
			t.Fatalf("%s: invalid YAML: %v", text, err)
		}
		if schema.Validate(document) == nil {
			t.Errorf("the schema accepts\n%s", text)
		}
		if _, err := config.Parse("f", []byte(text)); err == nil {
			t.Errorf("Parse accepts\n%s", text)
		}
	}
}
