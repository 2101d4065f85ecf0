package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// writeSums writes the checksums of all files, as sha256sum --check reads them, and prints how large the files are.
func (r *release) writeSums() error {
	return r.write("SHA256SUMS", func(w io.Writer) error {
		return filepath.WalkDir(r.folder, func(at string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || entry.Name() == "SHA256SUMS" {
				return err
			}
			data, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(r.folder, at)
			if err != nil {
				return err
			}
			if filepath.Dir(name) == "." {
				fmt.Printf("  %5.1f MB  %s\n", float64(len(data))/1e6, name)
			}
			_, err = fmt.Fprintf(w, "%x  %s\n", sha256.Sum256(data), filepath.ToSlash(name))
			return err
		})
	})
}
