package natsembed_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/slidegate/slidegate/kvstore/natsembed"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/opentest"
)

// TestOpen: the server belongs to the connection. Its folder is free after Close, and is not while another connection has it.
func TestOpen(t *testing.T) {
	open := opentest.Opener(natsembed.Open)
	url := "nats:embedded?timeout=5s&dir=" + t.TempDir()
	first := open.Open(t, url)
	opentest.Decides(t, first)
	second := open.Open(t, url)
	opentest.Down(t, second, "in use")
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	kit.Eventually(t, "the second to connect", func() bool { return second.Err() == nil })
	if text, _, err := second.(store.Documents).LoadDocument(t.Context(), "opened", 0); err != nil || string(text) != "text" {
		t.Errorf("got the document %q, %v, want that of the first", text, err)
	}
}

// A folder that cannot be made is refused, as a password is: here one inside a file, which root cannot make either.
func TestOpenRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	opentest.Opener(natsembed.Open).Refuses(t, "nats:embedded?dir="+filepath.Join(file, "folder"), "not a directory; correct the folder in the URL")
}
