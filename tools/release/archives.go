package main

import (
	"fmt"
	"io"
	"path"
)

// units are the systemd units in deploy.
var units = []string{
	"slidegate.service", "slidegate.socket", "slidegate-grpc.socket", "slidegate-resp.socket", "slidegate-proxy.service", "slidegate-proxy.socket",
}

// writeArchives writes an archive of the program for each platform.
func (r *release) writeArchives() error {
	manual, err := r.manual()
	if err != nil {
		return err
	}
	for _, p := range platforms {
		files, err := r.archived(p)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("slidegate_%s_%s_%s", r.number(), p.os, p.arch)
		files = append(files, manual...)
		for i := range files {
			files[i].name = path.Join(name, files[i].name)
		}
		archive, write := name+".tar.gz", writeTarGz
		if p.os == "windows" {
			archive, write = name+".zip", writeZip
		}
		if err := r.write(archive, func(w io.Writer) error { return write(w, r.time, files) }); err != nil {
			return err
		}
	}
	return nil
}

// archived returns the files for a platform, without those of manual.
func (r *release) archived(p platform) ([]file, error) {
	program, err := r.readProgram(p, p.program())
	if err != nil {
		return nil, err
	}
	files := []file{program}
	names := map[string]string{"LICENSE": "LICENSE", "README.md": "README.md", "CHANGELOG.md": "CHANGELOG.md", "deploy/slidegate.yaml": "slidegate.yaml"}
	if p.os == "linux" {
		for _, unit := range units {
			names["deploy/"+unit] = "systemd/" + unit
		}
	}
	for from, name := range names {
		f, err := r.read(from, name)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// manual returns what the program prints about itself: its manual page, and the scripts that complete its command lines.
func (r *release) manual() (files []file, err error) {
	for _, printed := range []struct {
		name string
		args []string
	}{
		{"slidegate.1", []string{"man"}},
		{"completions/slidegate.bash", []string{"completion", "bash"}},
		{"completions/_slidegate", []string{"completion", "zsh"}},
		{"completions/slidegate.fish", []string{"completion", "fish"}},
	} {
		text, err := r.output(printed.args...)
		if err != nil {
			return nil, err
		}
		files = append(files, file{printed.name, 0o644, text})
	}
	return files, nil
}
