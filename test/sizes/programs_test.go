package sizes

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/slidegate/slidegate/test/kit"
)

// TestPrograms measures how much larger a program is that runs a NATS server instead of connecting to one.
func TestPrograms(t *testing.T) {
	t.Parallel()
	without := build(t, `package main

import (
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/natskv"
)

func main() { println(kvstore.New, natskv.New) }
`)
	with := build(t, `package main

import (
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/natsembed"
	"github.com/slidegate/slidegate/kvstore/natskv"
)

func main() { println(kvstore.New, natskv.New, natsembed.Start) }
`)
	says(t, "stores.md", `adds about (\d+) MB to binaries that import it`, (with-without)/1_000_000)
}

// build builds a program and returns its size.
func build(t *testing.T, text string) int64 {
	t.Helper()
	folder := t.TempDir()
	file, program := filepath.Join(folder, "main.go"), filepath.Join(folder, "program")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("go", "build", "-o", program, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return kit.Must(os.Stat(program))(t).Size()
}
