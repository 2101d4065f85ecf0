package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestBuiltFilesAreCurrent compares what is embedded with what the sources make.
func TestBuiltFilesAreCurrent(t *testing.T) {
	files, err := bundle("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2 {
		t.Errorf("got %d built files, want page.js and page.css", len(files))
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("../..", folder, "built", name))
		if err != nil {
			t.Error(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("built/%s is not what its sources make; run make page", name)
		}
	}
}
