package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// writeImages writes the container images as OCI layouts: one for each Linux platform, which docker load reads too, and one with all, for
// registries.
func (r *release) writeImages() error {
	all := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		if p.os != "linux" {
			continue
		}
		image, err := r.image(p)
		if err != nil {
			return err
		}
		add := mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}}}
		all = mutate.AppendManifests(all, add)
		manifest, err := dockerManifest(image, r.imageName())
		if err != nil {
			return err
		}
		if err := r.writeLayout("image_"+p.arch, add, manifest); err != nil {
			return err
		}
	}
	return r.writeLayout("image", mutate.IndexAddendum{Add: all}, nil)
}

// imageName is the name that the images have after docker load.
func (r *release) imageName() string { return "slidegate:" + r.number() }

// image returns the image for a platform: what deploy/Dockerfile builds.
func (r *release) image(p platform) (v1.Image, error) {
	layer, err := r.layer(p)
	if err != nil {
		return nil, err
	}
	dockerfile, err := os.ReadFile(filepath.Join(r.root, "deploy", "Dockerfile"))
	if err != nil {
		return nil, err
	}
	config, err := imageConfig(string(dockerfile))
	if err != nil {
		return nil, err
	}
	config.Labels = map[string]string{
		"org.opencontainers.image.title":    "slidegate",
		"org.opencontainers.image.version":  r.number(),
		"org.opencontainers.image.source":   "https://" + repository,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	created := v1.Time{Time: r.time}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: p.os, Architecture: p.arch, Created: created, Config: config, RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "tools/release"}})
}

// layer returns the only layer of an image: the program, and the certificates of Mozilla's list for TLS to stores and other servers.
func (r *release) layer(p platform) (v1.Layer, error) {
	program, err := r.readProgram(p, "slidegate")
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	if err := writeTarGz(&packed, r.time, []file{program, {"etc/ssl/certs/ca-certificates.crt", 0o644, certificates()}}); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// certificates returns the root certificates, as PEM. Those with constraints that the format cannot express are left out.
func certificates() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer returns no errors
		}
	}
	return text.Bytes()
}

// dockerManifest returns the file that docker load reads if it does not read OCI layouts.
func dockerManifest(image v1.Image, name string) ([]byte, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	blob := func(of v1.Hash) string { return "blobs/" + of.Algorithm + "/" + of.Hex }
	entry := tarball.Descriptor{Config: blob(manifest.Config.Digest), RepoTags: []string{name}}
	for _, layer := range manifest.Layers {
		entry.Layers = append(entry.Layers, blob(layer.Digest))
	}
	return json.Marshal(tarball.Manifest{entry})
}

// writeLayout writes an OCI layout of one image, or of one index, as a tar file.
func (r *release) writeLayout(suffix string, add mutate.IndexAddendum, manifest []byte) error {
	add.Annotations = map[string]string{
		"io.containerd.image.name":          "docker.io/library/" + r.imageName(),
		"org.opencontainers.image.ref.name": r.number(),
	}
	dir := filepath.Join(r.scratch, suffix)
	if _, err := layout.Write(dir, mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), add)); err != nil {
		return err
	}
	var files []file
	err := filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, at)
		files = append(files, file{filepath.ToSlash(name), 0o644, data})
		return err
	})
	if err != nil {
		return err
	}
	if manifest != nil {
		files = append(files, file{"manifest.json", 0o644, manifest})
	}
	name := fmt.Sprintf("slidegate_%s_%s.tar", r.number(), suffix)
	return r.write(name, func(w io.Writer) error { return writeTar(w, r.time, files) })
}
