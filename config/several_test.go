package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/internal/options"
	"github.com/slidegate/slidegate/internal/yamlfile"
	"github.com/slidegate/slidegate/store"
)

// Policies and fields come from all files, and a field of one file applies to the policies of all.
func TestSeveralFiles(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"10-server.yaml": "failure: closed\ndefault_policy: login\naddress_groups: {ipv6: 56}\n",
		"20-api.yml":     "policies: {api: {limits: [1/s]}}\n",
		"30-login.yaml":  "refusal: {title: No}\npolicies: {login: {limits: [2/s]}}\n",
		".hidden.yaml":   "nonsense",
		"notes.txt":      "nonsense",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, err := Load(Options{}, folder)
	if err != nil {
		t.Fatal(err)
	}
	s := file.Service
	if len(file.Policies) != 2 || file.Policies[0].Name != "api" || file.Policies[1].Name != "login" ||
		s.Failure != store.FailClosed || s.Default != "login" || s.AddressGroups.V6 != 56 || s.Refusal.Title != "No" {
		t.Errorf("got %+v", file)
	}
	if _, err := Load(Options{}, t.TempDir()); err == nil || !strings.Contains(err.Error(), "the folder has no file that ends in .yaml or .yml") {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestSeveralFilesThatDisagree(t *testing.T) {
	const api = "policies:\n  api: {limits: [1/s]}\n"
	for _, test := range []struct {
		name  string
		texts []string
		want  string
	}{
		{"a policy twice", []string{api, "failure: open\n" + api}, `2.yaml:3:3: the policy "api" is given twice; the first is at 1.yaml:2:3`},
		{"a field twice", []string{"store: 'memory:'\n" + api, "store: 'memory:'\n"}, `2.yaml:1:1: "store" is given twice; the first is at 1.yaml:1:1`},
		{"a field in three", []string{"failure: open\n", "failure: closed\n", "failure: local\n" + api},
			"2.yaml:1:1: \"failure\" is given twice; the first is at 1.yaml:1:1\n3.yaml:1:1: \"failure\" is given twice; the first is at 1.yaml:1:1"},
		{"a policy called as a field", []string{"failure: open\n", "policies:\n  failure: {limits: [1/s]}\n"}, ""},
		{"no policy", []string{"failure: open\n", "store_timeout: 5s\n"}, "1.yaml:1:1: no policies; write policies: and below it at least one policy with limits"},
		{"problems in two", []string{"failure: opne\n", "policies:\n  api: {limit: [1/s]}\n"}, "1.yaml:1:10: failure: "},
		{"a default that is nowhere", []string{"default_policy: apis\n", api}, `1.yaml:1:17: default_policy: "apis" is not a policy; did you mean "api"? (want api)`},
		{"a key that another file groups", []string{"address_groups: {ipv6: 56}\n", "policies:\n  api: {limits: [1/s], overrides: [{key: '2001:db8::/60', unlimited: true}]}\n"},
			`2.yaml:2:42: key: the key is not as addresses are counted; write 2001:db8::/56 (keys are written as requests have them, such as "203.0.113.7")`},
		{"an empty one", []string{api, ""}, "2.yaml:1:1: the file is empty"},
	} {
		var inputs []input
		for i, text := range test.texts {
			inputs = append(inputs, input{string(rune('1'+i)) + ".yaml", []byte(text)})
		}
		_, err := parse(Options{}, inputs...)
		switch {
		case test.want == "" && err != nil, test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)):
			t.Errorf("%s: got %v\nwant %s", test.name, err, test.want)
		}
	}
}

// An error that is found later is located in the file with the field or the policy.
func TestLocateInSeveralFiles(t *testing.T) {
	file, err := parse(Options{},
		input{"1.yaml", []byte("store: 'memory:'\npolicies: {a: {limits: [1/s]}}\n")},
		input{"2.yaml", []byte("policies:\n  b: {key: '{status}', limits: [1/s]}\n  c: {cost: bytes, limits: [1/s]}\n")},
	)
	if err != nil {
		t.Fatal(err)
	}
	_, err = HTTP(file)
	got := file.Locate(err).Error()
	if lines := strings.Split(got, "\n"); len(lines) != 2 || !strings.HasPrefix(lines[0], "2.yaml:2:12: key: ") || !strings.HasPrefix(lines[1], "2.yaml:3:13: cost: ") {
		t.Errorf("got %s", got)
	}
	wrong := &options.Error{Package: "open", Option: "URL", Err: os.ErrInvalid}
	if located, ok := file.Locate(wrong).(*yamlfile.Error); !ok || located.File != "1.yaml" {
		t.Errorf("got %v, want an error at 1.yaml", located)
	}
}
