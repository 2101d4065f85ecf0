package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var whole = flag.Bool("release", false, "make releases, and use what is in their folder; as root")

// TestFolder makes a release in a clone of the last commit, and uses it as people do who have nothing but its folder. Then it commits, clones
// the clone to another place, makes the release again, and compares. (That it does not depend on what was compiled before is part of
// testModules.)
func TestFolder(t *testing.T) {
	if !*whole {
		t.Skip("SKIPPED: make long T=release runs it")
	}
	changelog, err := os.ReadFile(filepath.Join("..", "..", "CHANGELOG.md"))
	noError(t, err)
	number := regexp.MustCompile(`(?m)^## \[(\d.*?)\] - `).FindSubmatch(changelog)
	if number == nil {
		t.Fatal("CHANGELOG.md has no version")
	}
	version := "v" + string(number[1])
	first := filepath.Join(t.TempDir(), "first")
	git(t, ".", "clone", "--quiet", filepath.Join("..", ".."), first)
	makeRelease(t, first, version)
	f := &folder{path: filepath.Join(t.TempDir(), "downloaded"), version: version, from: first}
	noError(t, os.CopyFS(f.path, os.DirFS(filepath.Join(first, "dist", version))))

	t.Run("checksums", f.testSums)
	t.Run("archive", f.testArchive)
	t.Run("programs", f.testPrograms)
	t.Run("package", f.testPackage)
	t.Run("image", f.testImages)
	t.Run("modules", f.testModules)
	t.Run("made again", func(t *testing.T) {
		git(t, first, "-c", "user.name=tests", "-c", "user.email=tests@localhost", "commit", "--quiet", "--all", "--message", "Release")
		second := filepath.Join(t.TempDir(), "another", "second-clone")
		git(t, ".", "clone", "--quiet", first, second)
		makeRelease(t, second, version)
		got, want := sumsOf(t, filepath.Join(second, "dist", version)), sumsOf(t, f.path)
		for name := range maps.Keys(want) {
			if got[name] != want[name] {
				t.Errorf("%s: differs", name)
			}
		}
		if len(got) != len(want) || len(want) < 80 {
			t.Errorf("got %d files, want %d, and more than 80", len(got), len(want))
		}
		if out, err := exec.Command("git", "-C", second, "status", "--porcelain").Output(); err != nil || len(out) > 0 {
			t.Errorf("the second time: got changes in the tree, %v, want none:\n%s", err, out)
		}
	})
}

func makeRelease(t *testing.T, root, version string) {
	t.Helper()
	command := exec.Command("make", "release", "VERSION="+version)
	command.Dir, command.Stdout, command.Stderr = root, os.Stdout, os.Stderr
	noError(t, command.Run())
}

// sumsOf returns the checksums of all files of a folder.
func sumsOf(t *testing.T, folder string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	noError(t, fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(folder, name))
		sums[name] = fmt.Sprintf("%x", sha256.Sum256(data))
		return err
	}))
	return sums
}

// folder is the folder of a release.
type folder struct {
	path    string
	version string
	from    string // the tree that it was made from
}

// file returns the path of a file by its name without "slidegate_0.1.0_".
func (f *folder) file(name string) string {
	return filepath.Join(f.path, "slidegate_"+strings.TrimPrefix(f.version, "v")+"_"+name)
}

func (f *folder) testSums(t *testing.T) {
	check := exec.Command("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	check.Dir = f.path
	output(t, check)
	listed, err := os.ReadFile(filepath.Join(f.path, "SHA256SUMS"))
	noError(t, err)
	if got, want := bytes.Count(listed, []byte("\n")), len(sumsOf(t, f.path))-1; got != want {
		t.Errorf("SHA256SUMS has %d files, want %d", got, want)
	}
}

// unpack unpacks the archive of a platform, and returns its only folder.
func (f *folder) unpack(t *testing.T, p platform) string {
	t.Helper()
	dir := t.TempDir()
	if p.os == "windows" {
		archive, err := zip.OpenReader(f.file(p.os + "_" + p.arch + ".zip"))
		noError(t, err)
		defer archive.Close()
		noError(t, os.CopyFS(dir, archive))
	} else {
		output(t, exec.Command("tar", "-xzf", f.file(p.os+"_"+p.arch+".tar.gz"), "-C", dir))
	}
	return filepath.Join(dir, filepath.Base(f.file(p.os+"_"+p.arch)))
}

// The program of the archive passes the first minute of the README, and has what belongs to it.
func (f *folder) testArchive(t *testing.T) {
	dir := f.unpack(t, platform{"linux", runtime.GOARCH})
	program := filepath.Join(dir, "slidegate")
	if got, want := string(output(t, exec.Command(program, "version"))), "slidegate "+f.version+" (go1."; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	ownNetwork(t)
	serve := exec.Command(program, "serve", "--limit", "5/1m")
	serve.Dir = t.TempDir()
	start(t, serve)
	firstMinute(t, 1)
	output(t, exec.Command("groff", "-man", "-Tutf8", "-ww", "-z", filepath.Join(dir, "slidegate.1")))
	output(t, exec.Command("bash", "-n", filepath.Join(dir, "completions", "slidegate.bash")))
	output(t, exec.Command(program, "config", "check", filepath.Join(dir, "slidegate.yaml")))
	output(t, exec.Command(program, "config", "check", "--for", "proxy", filepath.Join(dir, "slidegate.yaml")))
	for _, name := range append(slices.Clone(units), "../LICENSE", "../README.md") {
		if _, err := os.Stat(filepath.Join(dir, "systemd", name)); err != nil {
			t.Error(err)
		}
	}
}

// The programs are for their platforms, have their version, and nothing of the machine that made them. Their lists of modules are complete.
func (f *folder) testPrograms(t *testing.T) {
	for _, p := range platforms {
		program := filepath.Join(f.unpack(t, p), p.program())
		if got := platformOf(program); got != p {
			t.Errorf("%v: got a program for %v", p, got)
		}
		info, err := buildinfo.ReadFile(program)
		noError(t, err)
		if info.Main.Version != f.version {
			t.Errorf("%v: got the version %s, want %s", p, info.Main.Version, f.version)
		}
		for _, setting := range info.Settings {
			if strings.HasPrefix(setting.Key, "vcs") || setting.Key == "CGO_ENABLED" && setting.Value != "0" {
				t.Errorf("%v: got the setting %v", p, setting)
			}
		}
		text, err := os.ReadFile(program)
		noError(t, err)
		home, err := os.UserHomeDir()
		noError(t, err)
		for _, path := range []string{f.from, os.TempDir() + "/slidegate-release", runtime.GOROOT() + "/src", filepath.Join(home, "go", "pkg")} {
			if bytes.Contains(text, []byte(path)) {
				t.Errorf("%v: the program contains the path %s", p, path)
			}
		}
		bom, err := os.ReadFile(f.file(p.os + "_" + p.arch + ".cdx.json"))
		noError(t, err)
		checkSchema(t, bom)
		for _, module := range info.Deps {
			if !bytes.Contains(bom, []byte(`"name": "`+module.Path+`"`)) {
				t.Errorf("%v: the list of modules does not have %s", p, module.Path)
			}
		}
		if !bytes.Contains(bom, fmt.Appendf(nil, "%x", sha256.Sum256(text))) || len(info.Deps) < 30 {
			t.Errorf("%v: the list of modules does not have the checksum of the program, or there are only %d modules", p, len(info.Deps))
		}
	}
}

// platformOf returns what a program is for, by its header.
func platformOf(program string) platform {
	if file, err := elf.Open(program); err == nil {
		defer file.Close()
		return platform{"linux", map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}[file.Machine]}
	}
	if file, err := macho.Open(program); err == nil {
		defer file.Close()
		return platform{"darwin", map[macho.Cpu]string{macho.CpuAmd64: "amd64", macho.CpuArm64: "arm64"}[file.Cpu]}
	}
	if file, err := pe.Open(program); err == nil {
		defer file.Close()
		return platform{"windows", map[uint16]string{pe.IMAGE_FILE_MACHINE_AMD64: "amd64", pe.IMAGE_FILE_MACHINE_ARM64: "arm64"}[file.Machine]}
	}
	return platform{}
}

// The package has valid units, and the command of the service runs as it is in the package's files.
func (f *folder) testPackage(t *testing.T) {
	archive := f.file(runtime.GOARCH + ".deb")
	root := t.TempDir()
	output(t, exec.Command("dpkg-deb", "--extract", archive, root))
	control := string(output(t, exec.Command("dpkg-deb", "--info", archive, "control", "conffiles")))
	for _, want := range []string{"Package: slidegate\n", "Version: " + strings.TrimPrefix(f.version, "v") + "\n", "\n/etc/slidegate/slidegate.yaml\n"} {
		if !strings.Contains("\n"+control, want) {
			t.Errorf("got the control files\n%s\nwant %q", control, want)
		}
	}
	if other := output(t, exec.Command("dpkg-deb", "--field", f.file("arm64.deb"), "Architecture")); string(other) != "arm64\n" {
		t.Errorf("got the architecture %q, want arm64", other)
	}
	scripts := t.TempDir()
	output(t, exec.Command("dpkg-deb", "--control", archive, scripts))
	for _, name := range []string{"postinst", "prerm", "postrm"} {
		output(t, exec.Command("dash", "-n", filepath.Join(scripts, name)))
	}
	for _, name := range []string{
		"usr/share/man/man1/slidegate.1.gz", "usr/share/bash-completion/completions/slidegate", "usr/share/zsh/vendor-completions/_slidegate",
		"usr/share/fish/vendor_completions.d/slidegate.fish", "usr/share/doc/slidegate/copyright", "usr/share/doc/slidegate/changelog.gz",
	} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	verifyUnits(t, root)

	text, err := os.ReadFile(filepath.Join(root, unitFolder, "slidegate.service"))
	noError(t, err)
	line := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindSubmatch(text)
	var env []string
	specifiers := strings.NewReplacer("%S", "/var/lib", "%N", "slidegate") // where systemd keeps state, and the name of the unit
	for _, variable := range regexp.MustCompile(`(?m)^Environment=(.*)$`).FindAllSubmatch(text, -1) {
		env = append(env, specifiers.Replace(string(variable[1])))
	}
	if line == nil || len(env) == 0 {
		t.Fatalf("the unit has no ExecStart= or no Environment=:\n%s", text)
	}
	const user = 61184 // the first of systemd's dynamic users
	state := filepath.Join(root, "var", "lib", "slidegate")
	noError(t, os.MkdirAll(state, 0o755)) // StateDirectory=
	noError(t, os.Chown(state, user, user))
	ownNetwork(t)
	words := strings.Fields(string(line[1]))
	start(t, jailed(root, user, env, words...))
	firstMinute(t, 1)
}

// verifyUnits checks the units of a package with the program in it.
func verifyUnits(t *testing.T, root string) {
	t.Helper()
	dir := t.TempDir()
	args := []string{"verify"}
	for _, unit := range units {
		text, err := os.ReadFile(filepath.Join(root, unitFolder, unit))
		noError(t, err)
		if strings.Contains(string(text), "/usr/local/") {
			t.Errorf("%s: the package has nothing in /usr/local", unit)
		}
		write(t, dir, unit, strings.ReplaceAll(string(text), "/usr/bin/slidegate", filepath.Join(root, "usr", "bin", "slidegate")))
		args = append(args, filepath.Join(dir, unit))
	}
	if out := output(t, exec.Command("systemd-analyze", args...)); len(out) > 0 {
		t.Errorf("systemd-analyze: %s", out)
	}
}

// The images are valid and can be imported. The default command of the one for this machine runs in its own files as its own user, and its
// health check reports whether it is ready.
func (f *folder) testImages(t *testing.T) {
	var image v1.Image
	dir := t.TempDir()
	output(t, exec.Command("tar", "-xf", f.file("image.tar"), "-C", dir))
	index, err := layout.ImageIndexFromPath(dir)
	noError(t, err)
	noError(t, validate.Index(index))
	for _, arch := range []string{"amd64", "arm64"} {
		loaded, err := tarball.ImageFromPath(f.file("image_"+arch+".tar"), nil) // as docker load does
		noError(t, err)
		noError(t, validate.Image(loaded))
		config, err := loaded.ConfigFile()
		noError(t, err)
		if config.Architecture != arch || config.OS != "linux" {
			t.Errorf("got an image for %s/%s, want linux/%s", config.OS, config.Architecture, arch)
		}
		if arch == runtime.GOARCH {
			image = loaded
		}
		for _, source := range []string{"docker-archive:" + f.file("image_"+arch+".tar"), "oci-archive:" + f.file("image_"+arch+".tar")} {
			output(t, exec.Command("skopeo", "--insecure-policy", "copy", "--quiet", source, "dir:"+t.TempDir()))
		}
	}
	copied := t.TempDir()
	output(t, exec.Command("skopeo", "--insecure-policy", "copy", "--quiet", "--all", "oci-archive:"+f.file("image.tar"), "oci:"+copied+":x"))
	var listed struct{ Manifests []v1.Descriptor }
	noError(t, json.Unmarshal(output(t, exec.Command("skopeo", "inspect", "--raw", "oci:"+copied+":x")), &listed))
	if len(listed.Manifests) != 2 {
		t.Errorf("the image for registries has %d images, want 2", len(listed.Manifests))
	}

	root := t.TempDir()
	noError(t, os.Chmod(root, 0o755))
	layers, err := image.Layers()
	noError(t, err)
	files := mutate.Extract(image)
	untar := exec.Command("tar", "-xf", "-", "--no-same-owner", "-C", root)
	untar.Stdin = files
	output(t, untar)
	noError(t, files.Close())
	if authorities, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt")); err != nil || bytes.Count(authorities, []byte("BEGIN CERT")) < 100 || len(layers) != 1 {
		t.Errorf("got %d bytes of certificates, %v, %d layers, want more than a hundred certificates in one layer", len(authorities), err, len(layers))
	}
	config, err := image.ConfigFile()
	noError(t, err)
	if config.Config.User != "65532:65532" {
		t.Fatalf("got the user %q, want 65532:65532", config.Config.User)
	}
	run := func(words ...string) *exec.Cmd { return jailed(root, 65532, config.Config.Env, words...) }
	check := config.Config.Healthcheck.Test[1:]
	ownNetwork(t)
	if out, err := run(check...).CombinedOutput(); exitStatus(err) != 1 || bytes.Count(out, []byte("\n")) != 1 || !strings.Contains(string(out), "is the service running?") {
		t.Errorf("health before the start: got %v, %s, want status 1 and one line that says why", err, out)
	}
	service := start(t, run(append(config.Config.Entrypoint, config.Config.Cmd...)...))
	firstMinute(t, 20) // of the default limit, 100 a minute
	if out, err := run(check...).CombinedOutput(); err != nil || string(out) != "ready\n" {
		t.Errorf("health: got %v, %q, want ready", err, out)
	}
	service.end()
	if out, err := run(check...).CombinedOutput(); exitStatus(err) != 1 {
		t.Errorf("health after the end: got %v, %s, want status 1", err, out)
	}
}

// Every module can be required and built, and the program installed, in an empty home with nothing compiled. The program is that of the
// archive, bit for bit.
func (f *folder) testModules(t *testing.T) {
	home := t.TempDir()
	env := []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "GOPATH=" + home + "/go", "GOMODCACHE=" + home + "/modules", "GOCACHE=" + home + "/cache",
		"GOFLAGS=-modcacherw", "GOTOOLCHAIN=local", "CGO_ENABLED=0", "GONOSUMDB=" + repository,
		"GOPROXY=file://" + f.path + "/modules," + strings.TrimSpace(string(output(t, exec.Command("go", "env", "GOPROXY")))),
	}
	run := func(dir string, args ...string) {
		t.Helper()
		command := exec.Command("go", args...)
		command.Dir, command.Env = dir, env
		output(t, command)
	}
	modules := 0
	list := filepath.Join(f.path, "modules")
	noError(t, filepath.WalkDir(list, func(at string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(at) != f.version+".mod" {
			return err
		}
		modules++
		path, err := filepath.Rel(list, filepath.Dir(filepath.Dir(at)))
		noError(t, err)
		t.Log(path)
		if strings.HasSuffix(path, "/cmd/slidegate") {
			run(home, "install", "-trimpath", "-ldflags", "-s -w", path+"@"+f.version)
			return nil
		}
		user := t.TempDir()
		run(user, "mod", "init", "example.com/user")
		run(user, "get", path+"/...@"+f.version)
		run(user, "build", path+"/...")
		return nil
	}))
	if modules < 10 {
		t.Errorf("the folder has %d modules, want more than ten", modules)
	}
	program := filepath.Join(home, "go", "bin", "slidegate")
	if got := string(output(t, exec.Command(program, "version"))); !strings.HasPrefix(got, "slidegate "+f.version+" (") {
		t.Errorf("got %q, want the version %s", got, f.version)
	}
	installed, err := os.ReadFile(program)
	noError(t, err)
	archived, err := os.ReadFile(filepath.Join(f.unpack(t, platform{"linux", runtime.GOARCH}), "slidegate"))
	noError(t, err)
	if !bytes.Equal(installed, archived) {
		t.Error("the installed program differs from the one in the archive")
	}
	ownNetwork(t)
	serve := exec.Command(program, "serve", "--limit", "5/1m")
	serve.Dir = home
	start(t, serve)
	firstMinute(t, 1)
}

// output runs a command that must succeed, and returns what it prints.
func output(t *testing.T, command *exec.Cmd) []byte {
	t.Helper()
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(command.Args, " "), err, out, problems.Bytes())
	}
	return append(out, problems.Bytes()...)
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
