package config

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Overrides in a file of their own are the same as in the policy file, and so are the errors in them.
func TestOverridesFile(t *testing.T) {
	const list = "- {key: ann, limits: [50/1m]}\n- {keys: team-*, unlimited: true}\n"
	folder := write(t, map[string]string{
		"inside.yaml":  "policies:\n  api:\n    key: user\n    limits: [5/1m overlap=whole segments=60]\n    lease: true\n    overrides: [{key: ann, limits: [50/1m]}, {keys: team-*, unlimited: true}]\n",
		"outside.yaml": "policies:\n  api:\n    key: user\n    limits: [5/1m overlap=whole segments=60]\n    lease: true\n    overrides_file: list.yaml\n",
		"list.yaml":    list,
	})
	inside, err := Load(Options{}, filepath.Join(folder, "inside.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	outside, err := Load(Options{}, filepath.Join(folder, "outside.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(inside.Policies, outside.Policies) || string(Format(inside)) != string(Format(outside)) {
		t.Errorf("got %+v, want %+v", outside.Policies, inside.Policies)
	}
	if want := []string{filepath.Join(folder, "list.yaml")}; !reflect.DeepEqual(outside.Others, want) || inside.Others != nil {
		t.Errorf("got other files %q and %q, want %q and none", outside.Others, inside.Others, want)
	}
}

func TestOverridesFileIsWrong(t *testing.T) {
	for _, test := range []struct{ name, policy, list, want string }{
		{"fields", "overrides_file: list.yaml", "- {key: ann, limit: [1/1s]}\n-\n  keys: a*\n", `list.yaml:1:14: "limit" is not a field of an override; did you mean "limits"? (want one of key, keys, limits, unlimited)
list.yaml:3:3: the override has no limits; add limits: [1000/1m], say, or unlimited: true`},
		{"covered", "overrides_file: list.yaml", "- {keys: a*, unlimited: true}\n- {key: ann, limits: [1/1s]}\n",
			`list.yaml:2:3: this override is never reached, since the one on line 1 matches all of its keys; put it before that one, or leave it out`},
		{"shared counts", "overrides_file: list.yaml", "- {key: ann, limits: [1/1m, 200/1m]}\n",
			`list.yaml:1:29: the limit "200/1m" would share its counts with the one on line 1, which has the same name and shape; give it another name`},
		{"lease", "lease: true\n    overrides_file: list.yaml", "- {key: ann, limits: [{quota: 5, window: 1m, lease: false}]}\n- {key: bob, limits: [50/1m sliding-log]}\n",
			`list.yaml:1:46: lease: the policy has lease: true in FOLDER/f.yaml, line 4, which applies to all of its limits; leave it out there and write lease: true for some limits, or leave it out here
list.yaml:2:23: invalid limit: lease: a sliding-log limit cannot be leased, because it counts every unit from the time of its charge; use sliding-window with segments=60 overlap=whole, or leave lease out (the policy has lease: true in FOLDER/f.yaml, line 4)`},
		{"key", "key: host\n    overrides_file: list.yaml", "- {key: Shop.example, unlimited: true}\n",
			`list.yaml:1:9: key: the key has a value that no request has in place of {host} (keys are written as requests have them, such as "example.com")`},
		{"both", "overrides_file: list.yaml\n    overrides: []", "[]", `f.yaml:4:5: overrides_file: cannot be combined with overrides; write all of them into the file`},
		{"missing", "overrides_file: other.yaml", "[]", `f.yaml:4:21: overrides_file: the file "FOLDER/other.yaml": no such file or directory`},
		{"mapping", "overrides_file: list.yaml", "ann: {unlimited: true}\n", `list.yaml:1:1: overrides: must be a list of mappings with key or keys, and limits, not a mapping`},
		{"empty", "overrides_file: list.yaml", "", `list.yaml:1:1: the file is empty; write a list of overrides, such as - {key: alice, limits: [500/1m]}`},
	} {
		folder := write(t, map[string]string{"f.yaml": "policies:\n  api:\n    limits: [5/1m]\n    " + test.policy + "\n", "list.yaml": test.list})
		_, err := Load(Options{}, filepath.Join(folder, "f.yaml"))
		got := strings.ReplaceAll(strings.ReplaceAll(fmt.Sprint(err), "\n"+folder+"/", "\n"), folder+"/", "FOLDER/")
		got = strings.TrimPrefix(got, "FOLDER/")
		if got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}
