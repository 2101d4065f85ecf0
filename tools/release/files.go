package main

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// file is a file of an archive.
type file struct {
	name string // its path, with slashes
	mode fs.FileMode
	data []byte
}

// read returns a file of the repository under another name.
func (r *release) read(from, name string) (file, error) {
	data, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(from)))
	return file{name, 0o644, data}, err
}

// readProgram returns the program of a platform under another name.
func (r *release) readProgram(p platform, name string) (file, error) {
	data, err := os.ReadFile(r.programs[p])
	return file{name, 0o755, data}, err
}

// write creates a file of the release.
func (r *release) write(name string, write func(io.Writer) error) error {
	out, err := os.Create(filepath.Join(r.folder, name))
	if err != nil {
		return err
	}
	return cmp.Or(write(out), out.Close())
}

// writeTar writes files and the folders that they are in, sorted, with one owner and one time.
func writeTar(w io.Writer, at time.Time, files []file) error {
	archive := tar.NewWriter(w)
	done := map[string]bool{".": true}
	var addFolder func(name string) error
	addFolder = func(name string) error {
		if done[name] {
			return nil
		}
		done[name] = true
		if err := addFolder(path.Dir(name)); err != nil {
			return err
		}
		return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: at, Format: tar.FormatUSTAR})
	}
	for _, f := range byName(files) {
		if err := addFolder(path.Dir(f.name)); err != nil {
			return err
		}
		header := tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: at, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := archive.Write(f.data); err != nil {
			return err
		}
	}
	return archive.Close()
}

func writeTarGz(w io.Writer, at time.Time, files []file) error {
	packed := gzip.NewWriter(w)
	return cmp.Or(writeTar(packed, at, files), packed.Close())
}

// writeZip writes files, sorted, with one time.
func writeZip(w io.Writer, at time.Time, files []file) error {
	archive := zip.NewWriter(w)
	for _, f := range byName(files) {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		header.SetMode(f.mode)
		out, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := out.Write(f.data); err != nil {
			return err
		}
	}
	return archive.Close()
}

func byName(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return cmp.Compare(a.name, b.name) })
}
