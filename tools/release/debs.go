package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
)

const (
	unitFolder = "/usr/lib/systemd/system"
	docFolder  = "/usr/share/doc/slidegate"
)

// writeDebs writes a Debian package for each Linux platform.
func (r *release) writeDebs() error {
	for _, p := range platforms {
		if p.os != "linux" {
			continue
		}
		if err := r.writeDeb(p); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) writeDeb(p platform) error {
	contents, err := r.installed(p)
	if err != nil {
		return err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name:        "slidegate",
		Arch:        p.arch,
		Platform:    "linux",
		Version:     r.number(),
		Section:     "net",
		Priority:    "optional",
		Maintainer:  "The Slidegate maintainers <slidegate@users.noreply.github.com>",
		Homepage:    "https://" + repository,
		License:     "Apache-2.0",
		Description: "sliding-window rate limiter\nA service for programs in any language, a proxy that puts limits in front of an\napplication, and a replay of recorded traffic.",
		MTime:       r.time,
		Overridables: nfpm.Overridables{
			Recommends: []string{"ca-certificates"},
			Contents:   contents,
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(r.root, "deploy", "debian", "postinst"),
				PreRemove:   filepath.Join(r.root, "deploy", "debian", "prerm"),
				PostRemove:  filepath.Join(r.root, "deploy", "debian", "postrm"),
			},
		},
	})
	name := fmt.Sprintf("slidegate_%s_%s.deb", r.number(), p.arch)
	return r.write(name, func(w io.Writer) error { return deb.Default.Package(info, w) })
}

// installed returns the contents of the package. nfpm reads them from files.
func (r *release) installed(p platform) (contents files.Contents, err error) {
	all, err := r.installedFiles(p)
	if err != nil {
		return nil, err
	}
	root := filepath.Join(r.scratch, "deb-"+p.arch)
	for _, f := range all {
		source := filepath.Join(root, filepath.FromSlash(f.name))
		if err := os.MkdirAll(filepath.Dir(source), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(source, f.data, f.mode); err != nil {
			return nil, err
		}
		content := &files.Content{
			Source: source, Destination: f.name, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: r.time},
		}
		if strings.HasPrefix(f.name, "/etc/") {
			content.Type = files.TypeConfig
		}
		contents = append(contents, content)
	}
	return contents, nil
}

// installedFiles returns the files of the package, named by where they are installed.
func (r *release) installedFiles(p platform) ([]file, error) {
	program, err := r.readProgram(p, "/usr/bin/slidegate")
	if err != nil {
		return nil, err
	}
	all := []file{program}
	manual, err := r.manual()
	if err != nil {
		return nil, err
	}
	for _, f := range manual {
		f.name = map[string]string{
			"slidegate.1":                "/usr/share/man/man1/slidegate.1.gz",
			"completions/slidegate.bash": "/usr/share/bash-completion/completions/slidegate",
			"completions/_slidegate":     "/usr/share/zsh/vendor-completions/_slidegate",
			"completions/slidegate.fish": "/usr/share/fish/vendor_completions.d/slidegate.fish",
		}[f.name]
		if strings.HasSuffix(f.name, ".gz") {
			f.data = gzipped(f.data)
		}
		all = append(all, f)
	}
	for from, name := range map[string]string{
		"LICENSE": docFolder + "/copyright", "README.md": docFolder + "/README.md", "CHANGELOG.md": docFolder + "/changelog.gz",
		"deploy/slidegate.yaml": "/etc/slidegate/slidegate.yaml",
	} {
		f, err := r.read(from, name)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(name, ".gz") {
			f.data = gzipped(f.data)
		}
		all = append(all, f)
	}
	for _, unit := range units {
		f, err := r.read("deploy/"+unit, path.Join(unitFolder, unit))
		if err != nil {
			return nil, err
		}
		f.data = bytes.ReplaceAll(f.data, []byte("/usr/local/bin/slidegate"), []byte("/usr/bin/slidegate"))
		all = append(all, f)
	}
	return all, nil
}

func gzipped(data []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(data) // a buffer returns no errors
	_ = w.Close()
	return out.Bytes()
}
