package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// What cannot be released is an error that says what to do, before anything is changed.
func TestRejects(t *testing.T) {
	clean := func(t *testing.T) string {
		dir := t.TempDir()
		write(t, dir, "CHANGELOG.md", "## [0.2.0] - 2026-01-31\n\n## [0.1.0] - tomorrow\n")
		git(t, dir, "init", "--quiet")
		git(t, dir, "add", ".")
		git(t, dir, "-c", "user.name=tests", "-c", "user.email=tests@localhost", "commit", "--quiet", "--message", "all")
		return dir
	}
	for _, test := range []struct {
		name, version, want string
		change              func(dir string)
	}{
		{"no v", "0.2.0", `VERSION: "0.2.0" is not a version; write it as v0.1.0`, nil},
		{"two numbers", "v0.2", "is not a version", nil},
		{"changed file", "v0.2.0", "commit or undo these changes:\n M CHANGELOG.md", func(dir string) { write(t, dir, "CHANGELOG.md", "") }},
		{"new file", "v0.2.0", "commit or undo these changes:\n?? new", func(dir string) { write(t, dir, "new", "") }},
		{"not in the changelog", "v0.3.0", "CHANGELOG.md: has no entry for 0.3.0; add one with the heading ## [0.3.0] - 2", nil},
		{"no date", "v0.1.0", `CHANGELOG.md: ## [0.1.0]: "tomorrow" is not a date`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := clean(t)
			if test.change != nil {
				test.change(dir)
			}
			if err := run(dir, []string{test.version}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "dist")); err == nil {
				t.Error("there is a folder dist, want none")
			}
		})
	}
	if err := run(".", nil); err == nil || !strings.Contains(err.Error(), "make release VERSION=v0.1.0") {
		t.Errorf("no version: got %v, want an error that says how to give it", err)
	}
}

// An archive does not depend on the order of the files, has the folders before what is in them, and only the given time.
func TestArchivesAreSorted(t *testing.T) {
	at := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	files := []file{{"b/c/two", 0o644, []byte("2")}, {"b/one", 0o755, []byte("1")}, {"a", 0o644, nil}}
	reversed := []file{files[2], files[1], files[0]}
	for name, write := range map[string]func(io.Writer, time.Time, []file) error{"tar.gz": writeTarGz, "zip": writeZip} {
		var one, two bytes.Buffer
		if err := write(&one, at, files); err != nil {
			t.Fatal(err)
		}
		if err := write(&two, at, reversed); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one.Bytes(), two.Bytes()) {
			t.Errorf("%s: differs with the order of the files", name)
		}
	}
	var packed bytes.Buffer
	if err := writeTarGz(&packed, at, files); err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(&packed)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for archive := tar.NewReader(unpacked); ; {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		if !header.ModTime.Equal(at) || header.Uid != 0 || header.Uname != "" {
			t.Errorf("%s: got the time %v, the owner %d %q, want %v and 0", header.Name, header.ModTime, header.Uid, header.Uname, at)
		}
	}
	if got, want := strings.Join(names, " "), "a b/ b/c/ b/c/two b/one"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The images have what deploy/Dockerfile sets.
func TestImageConfig(t *testing.T) {
	const build = "FROM golang AS build\nRUN go build\n\nFROM scratch\n"
	config, err := imageConfig(build + "USER 1:2\n# a comment\nENV A=b c\nEXPOSE 80 81\nENTRYPOINT [\"/x\"]\nCMD [\"y\", \"--z\"]\n" +
		"HEALTHCHECK --interval=10s --timeout=3s CMD [\"/x\", \"health\"]\n")
	if err != nil {
		t.Fatal(err)
	}
	_, port := config.ExposedPorts["81/tcp"]
	check := config.Healthcheck
	if config.User != "1:2" || config.Env[0] != "A=b c" || !port || config.Entrypoint[0] != "/x" || strings.Join(config.Cmd, " ") != "y --z" ||
		strings.Join(check.Test, " ") != "CMD /x health" || check.Interval != 10*time.Second || check.Timeout != 3*time.Second {
		t.Errorf("got %+v, %+v, want what the Dockerfile sets", config, check)
	}
	if _, err := imageConfig(build + "VOLUME /data\n"); err == nil || !strings.Contains(err.Error(), "VOLUME /data: tools/release does not know") {
		t.Errorf("an unknown instruction: got %v, want an error", err)
	}
}

// A bill of materials is valid by the schema of CycloneDX.
func TestBillOfMaterials(t *testing.T) {
	info := &debug.BuildInfo{
		GoVersion: "go1.26.1",
		Main:      debug.Module{Path: repository + "/cmd/slidegate", Version: "v0.1.0", Sum: "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="},
		Deps:      []*debug.Module{{Path: "github.com/Big/Letters", Version: "v2.0.0+incompatible", Sum: "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="}},
	}
	bom, err := billOfMaterials(info, [32]byte{1}, time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).EncodeVersion(bom, bomVersion); err != nil {
		t.Fatal(err)
	}
	checkSchema(t, text.Bytes())
	const sum = `{"alg":"SHA-256","content":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}` // of nothing
	for _, want := range []string{`"purl":"pkg:golang/github.com/big/letters@v2.0.0%2Bincompatible"`, `"purl":"pkg:golang/std@1.26.1"`, sum} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("got %s, want it to have %s", text.String(), want)
		}
	}
	info.Deps[0].Replace = &debug.Module{Path: "example.com/fork"}
	if _, err := billOfMaterials(info, [32]byte{1}, time.Time{}); err == nil {
		t.Error("a replaced module: got no error, want one")
	}
}

// checkSchema fails the test unless a text is a CycloneDX bill of materials. The schemas are in the folder of the library's module.
func checkSchema(t *testing.T, text []byte) {
	t.Helper()
	folder, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	for name, file := range map[string]string{
		"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		schema, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)), "schema", file))
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource("http://cyclonedx.org/schema/"+name, parsed); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(document); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
