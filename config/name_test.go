package config

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/policy"
)

// The file, its schema and the library have the same bound on names, so that a file can say what a program can.
func TestNamesHaveOneBound(t *testing.T) {
	for length, want := range map[int]bool{policy.MaxName: true, policy.MaxName + 1: false} {
		name := strings.Repeat("n", length)
		if err := policy.CheckName(name); (err == nil) != want {
			t.Errorf("the library says of a name of %d bytes: %v", length, err)
		}
		for what, text := range map[string]string{
			"policy": "policies:\n  " + name + ":\n    limits: [1/1m]\n",
			"limit":  "policies:\n  a:\n    limits: [1/1m name=" + name + "]\n",
		} {
			if _, err := Parse("limits.yaml", []byte(text)); (err == nil) != want {
				t.Errorf("%s: the file says of a name of %d bytes: %v", what, length, err)
			}
		}
	}
	bound := fmt.Sprintf(`"maxLength": %d`, policy.MaxName)
	if same := bytes.Count(Schema(), []byte(bound)); same != 2 {
		t.Errorf("the schema has the bound of the library on %d kinds of names, want 2: policies and limits", same)
	}
}
