package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/fields"
)

func mustTemplate(t *testing.T, text string) fields.Template {
	t.Helper()
	template, err := fields.ParseTemplate(text)
	if err != nil {
		t.Fatal(err)
	}
	return template
}

func mustCost(t *testing.T, text string) fields.Cost {
	t.Helper()
	cost, err := fields.ParseCost(text)
	if err != nil {
		t.Fatal(err)
	}
	return cost
}

func TestLoad(t *testing.T) {
	got, err := Load(Options{}, filepath.Join("testdata", "slidegate.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := &File{Policies: []Policy{
		{Name: "api", Key: fields.Default, Cost: mustCost(t, "1"), Limits: []slidegate.Limit{
			{Quota: 100, Window: time.Minute},
			{Quota: 1000, Window: time.Hour, Algorithm: slidegate.SlidingLog},
		}},
		{Name: "login", Key: mustTemplate(t, "{address} {field:user.name}"), Cost: mustCost(t, "bytes"), Limits: []slidegate.Limit{
			{Name: "burst", Quota: 5, Window: time.Second, Algorithm: slidegate.TokenBucket, Burst: 20},
			{Name: "day", Quota: 100, Window: 24 * time.Hour, Segments: 24, Overlap: slidegate.OverlapWhole,
				Anchor: slidegate.AnchorFirst, CountRefused: true},
			{Quota: 3, Window: 10 * time.Second, Algorithm: slidegate.FixedWindow},
		}},
	}}
	got.places = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if _, err := Load(Options{}, filepath.Join("testdata", "nothing.yaml")); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "config: ") {
		t.Errorf("a missing file: got %v, want fs.ErrNotExist", err)
	}
}

// TestWaysToWrite has files that mean the same as the first one.
func TestWaysToWrite(t *testing.T) {
	want, err := Parse("f", []byte("policies:\n  a:\n    key: user\n    cost: 2\n    limits:\n      - 5/1m\n      - 7/1h\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`{policies: {a: {key: user, cost: 2, limits: [5/1m, 7/1h]}}}`,
		`{"policies": {"a": {"key": "{user}", "cost": "2", "limits": ["5/1m", {"quota": 7, "window": "1h"}]}}}`,
		"%YAML 1.2\n---\npolicies: {a: {key: user, cost: 2, limits: [5/1m, 7/1h]}}\n...\n",
		"policies: {a: {key: user, cost: 2, limits: [5/1m, 7/1h]}}\n---\n# nothing more\n",
		"\ufeffpolicies:\r\n  a:\r\n    key: user\r\n    cost: 2\r\n    limits:\r\n    - 5 per minute\r\n    - 7/h # an hour\r\n",
		"policies:\n  a:\n    key: >-\n      user\n    cost: |-\n      2\n    limits: [5/1m, 7/1h]\n",
		"policies:\n  a:\n    key: user\n    limits:\n      - 5/1m\n      - window: 60m\n        quota: 7\n    cost: 2\n",
	} {
		got, err := Parse("f", []byte(text))
		if err != nil || !reflect.DeepEqual(got.Policies, want.Policies) || !reflect.DeepEqual(got.Service, want.Service) {
			t.Errorf("%s\ngot  %+v, %v\nwant %+v", text, got, err, want)
		}
	}
}

func TestAliases(t *testing.T) {
	file, err := Parse("f", []byte(`
policies:
  a: &a
    key: &key user
    limits: &limits [&one 5/1m, 7/1h]
  b:
    key: *key
    limits: *limits
  c: *a
  d:
    limits: [*one]
  e:
    key: &key path # the name is used again
    limits: [&one 9/1m]
  f:
    key: *key
    limits: [*one]
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range file.Policies {
		got = append(got, fmt.Sprint(p.Name, " ", p.Key, " ", p.Limits))
	}
	want := []string{
		"a {user} [5/1m 7/1h]", "b {user} [5/1m 7/1h]", "c {user} [5/1m 7/1h]", "d {address} [5/1m]", "e {path} [9/1m]", "f {path} [9/1m]",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestPolicy(t *testing.T) {
	one := &File{Policies: []Policy{{Name: "api"}}}
	two := &File{Policies: []Policy{{Name: "api"}, {Name: "login"}}}
	tests := []struct {
		file      *File
		name      string
		want, err string
	}{
		{one, "api", "api", ""},
		{one, "", "api", ""},
		{two, "login", "login", ""},
		{two, "", "", "config: policy: the file has several policies; name one (want one of api, login)"},
		{two, "lgoin", "", `config: policy: "lgoin" is not a policy; did you mean "login"? (want one of api, login)`},
		{two, "search", "", `config: policy: "search" is not a policy (want one of api, login)`},
		{one, "apo", "", `config: policy: "apo" is not a policy; did you mean "api"? (want api)`},
		{&File{}, "", "", "config: policy: the file has no policies"},
		{&File{}, "api", "", "config: policy: the file has no policies"},
	}
	for _, test := range tests {
		p, err := test.file.Policy(test.name)
		switch {
		case test.err == "" && (err != nil || p.Name != test.want):
			t.Errorf("Policy(%q): got %v, %v, want %s", test.name, p, err, test.want)
		case test.err != "" && (err == nil || err.Error() != test.err):
			t.Errorf("Policy(%q): got %v, want %s", test.name, err, test.err)
		}
	}
	if p, _ := two.Policy("login"); p != &two.Policies[1] {
		t.Error("got a copy of the policy, want the one in the file")
	}
}

func ExampleParse() {
	file, err := Parse("slidegate.yaml", []byte(`
policies:
  api:
    key: "{user} {method}"
    limits:
      - 100/1m
      - quota: 1000
        window: 1h
        algorithm: sliding-log
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range file.Policies {
		fmt.Println(p.Name, p.Key, p.Cost, p.Limits)
	}
	_, err = Parse("slidegate.yaml", []byte("policies:\n  api:\n    limits:\n      - quotta: 1000\n        window: 1h\n"))
	fmt.Println(err)
	// Output:
	// api {user} {method} 1 [100/1m 1000/1h sliding-log]
	// slidegate.yaml:4:9: "quotta" is not a field of a limit; did you mean "quota"? (want one of name, quota, window, algorithm, segments, overlap, anchor, count_refused, lease, burst, hold, notify, ttl, calendar, zone)
}
