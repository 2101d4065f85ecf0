package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	xmod "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// proxy is a module proxy in a folder, for GOPROXY=file://....
type proxy struct{ dir string }

// add publishes a module's folder as a version. Its time is SOURCE_DATE_EPOCH.
func (p *proxy) add(dir, path, version string) error {
	escaped, err := xmod.EscapePath(path)
	if err != nil {
		return err
	}
	at := filepath.Join(p.dir, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	seconds, _ := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64) // 0 if it is not set: versions of a day are never published
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Unix(seconds, 0).UTC()})
	if err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{version + ".info": info, version + ".mod": mod, "list": []byte(version + "\n")} {
		if err := os.WriteFile(filepath.Join(at, name), text, 0o644); err != nil {
			return err
		}
	}
	return writeZip(filepath.Join(at, version+".zip"), func(w io.Writer) error {
		return zip.CreateFromDir(w, xmod.Version{Path: path, Version: version}, dir)
	})
}

func writeZip(file string, write func(io.Writer) error) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := write(out); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// env returns the environment of a go command that finds the repository's modules only in the proxy, and all others where it
// usually does. What it downloads from the proxy goes to the module cache, so a version must never stand for two different trees:
// see newVersion.
func (p *proxy) env() []string {
	others := os.Getenv("GOPROXY")
	if others == "" {
		others = goEnv("GOPROXY")
	}
	return append(os.Environ(),
		"GOWORK=off",
		"GOFLAGS=-mod=mod",
		"GOPROXY=file://"+filepath.ToSlash(p.dir)+","+others,
		"GONOSUMDB="+strings.TrimPrefix(goEnv("GONOSUMDB")+","+repository, ","),
	)
}

// repository is the path of the root module; all others are below it.
const repository = "github.com/slidegate/slidegate"

// removeFromCache removes a version of the repository's modules from the module cache.
func removeFromCache(version string) error {
	cache := goEnv("GOMODCACHE")
	for _, root := range []string{cache, filepath.Join(cache, "cache", "download")} {
		err := filepath.WalkDir(filepath.Join(root, filepath.FromSlash(path.Dir(repository))), func(file string, entry fs.DirEntry, err error) error {
			switch {
			case os.IsNotExist(err):
				return nil
			case err != nil:
				return err
			case entry.IsDir() && strings.HasSuffix(file, "@"+version):
				return firstOf(removeAll(file), filepath.SkipDir)
			case !entry.IsDir() && strings.HasPrefix(entry.Name(), version+"."):
				return os.Remove(file)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("module cache: %w", err)
		}
	}
	return nil
}

// removeAll removes a folder that the module cache has made read-only.
func removeAll(dir string) error {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = os.Chmod(path, 0o755)
		}
		return err
	})
	return firstOf(err, os.RemoveAll(dir))
}
