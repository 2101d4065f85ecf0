// Command site makes a static web site from the Markdown files of this repository: README.md, docs and other pages.
// The site needs no server, and its pages need no network.
//
//	site -root .. -to ../dist/site
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

func main() {
	root := flag.String("root", "..", "the folder of the repository")
	to := flag.String("to", "../dist/site", "the folder of the site")
	flag.Parse()
	if err := build(*root, *to); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// build writes the site, and copies the pictures that its pages show.
func build(root, to string) error {
	files, err := markdownFiles(root)
	if err != nil {
		return err
	}
	s := &site{root: root, pages: map[string]string{}, copies: map[string]bool{}}
	for _, file := range files {
		s.pages[file] = pageName(file)
	}
	for _, file := range files {
		html, err := s.render(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := write(filepath.Join(to, s.pages[file]), html); err != nil {
			return err
		}
	}
	for file := range s.copies {
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return err
		}
		if err := write(filepath.Join(to, file), content); err != nil {
			return err
		}
	}
	return nil
}

// markdownFiles returns the pages of the site, by their paths in the repository.
func markdownFiles(root string) (files []string, err error) {
	for _, folder := range []string{".", "bench", "docs", "examples"} {
		err = filepath.WalkDir(filepath.Join(root, folder), func(file string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && folder != "docs" && file != filepath.Join(root, folder) {
				return filepath.SkipDir
			}
			if filepath.Ext(file) == ".md" {
				relative, _ := filepath.Rel(root, file)
				files = append(files, filepath.ToSlash(relative))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// pageName returns the path in the site of the page of a Markdown file.
func pageName(file string) string {
	dir, base := path.Split(file)
	if base == "README.md" {
		return dir + "index.html"
	}
	return dir + strings.TrimSuffix(base, ".md") + ".html"
}

func write(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}
