package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// platform is what a program is built for, in Go's terms.
type platform struct{ os, arch string }

var platforms = []platform{
	{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

// program returns the file name of the program.
func (p platform) program() string {
	if p.os == "windows" {
		return "slidegate.exe"
	}
	return "slidegate"
}

// build installs the program for all platforms from the modules of the release, as users do with go install. So it has the version of its
// module, and neither a path nor a commit.
func (r *release) build() error {
	for _, p := range platforms {
		gopath := filepath.Join(r.scratch, "gopath")
		command := r.goCommand(r.scratch, "install", "-ldflags=-s -w", repository+"/cmd/slidegate@"+r.version)
		command.Env = append(command.Env, "GOPATH="+gopath, "GOBIN=", "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0")
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%s/%s: %w\n%s", p.os, p.arch, err, out)
		}
		below := p.os + "_" + p.arch
		if p == (platform{runtime.GOOS, runtime.GOARCH}) {
			below = "."
		}
		r.programs[p] = filepath.Join(gopath, "bin", below, p.program())
	}
	printed, err := r.output("version")
	if err == nil && !strings.HasPrefix(string(printed), "slidegate "+r.version+" (") {
		err = fmt.Errorf("slidegate version prints %q, want the version %s", printed, r.version)
	}
	return err
}

// output returns what a command of the program for this machine prints.
func (r *release) output(args ...string) ([]byte, error) {
	program := r.programs[platform{runtime.GOOS, runtime.GOARCH}]
	if program == "" {
		return nil, fmt.Errorf("there is no program for %s/%s; make the release on one of %v", runtime.GOOS, runtime.GOARCH, platforms)
	}
	out, err := exec.Command(program, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("slidegate %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// goCommand returns a go command that finds the modules of the release in its folder, and all others where it usually does. The version is
// not published yet, so it must not get into the module cache: the command has one of its own.
func (r *release) goCommand(dir string, args ...string) *exec.Cmd {
	command := exec.Command("go", args...)
	command.Dir = dir
	command.Env = append(os.Environ(),
		"GOWORK=off",
		"GOFLAGS=-trimpath -modcacherw",
		"GOMODCACHE="+filepath.Join(r.scratch, "modcache"),
		"GOPROXY=file://"+filepath.ToSlash(r.modules())+",file://"+filepath.ToSlash(goEnv("GOMODCACHE"))+"/cache/download,"+goEnv("GOPROXY"),
		"GONOSUMDB="+strings.TrimPrefix(goEnv("GONOSUMDB")+","+repository, ","),
	)
	return command
}

func goEnv(name string) string {
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
