package config

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/internal/engine"
)

// The file, its schema and the library have the same bound on names.
func TestNamesHaveOneBound(t *testing.T) {
	for length, want := range map[int]bool{engine.MaxName: true, engine.MaxName + 1: false} {
		name := strings.Repeat("n", length)
		if err := engine.CheckName(name); (err == nil) != want {
			t.Errorf("library: a name of %d bytes: got %v", length, err)
		}
		for what, text := range map[string]string{
			"policy": "policies:\n  " + name + ":\n    limits: [1/1m]\n",
			"limit":  "policies:\n  a:\n    limits: [1/1m name=" + name + "]\n",
		} {
			if _, err := Parse("limits.yaml", []byte(text)); (err == nil) != want {
				t.Errorf("%s: file: a name of %d bytes: got %v", what, length, err)
			}
		}
	}
	bound := fmt.Sprintf(`"maxLength": %d`, engine.MaxName)
	if same := bytes.Count(Schema(), []byte(bound)); same != 2 {
		t.Errorf("schema: got the library's bound for %d kinds of names, want 2: policies and limits", same)
	}
}
