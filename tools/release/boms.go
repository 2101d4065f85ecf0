package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// bomVersion is the version of the format: not the newest, because fewer programs read that.
const bomVersion = cyclonedx.SpecVersion1_6

// writeBOMs writes a list of the modules in each program, as a CycloneDX bill of materials. The linker has put the list into the program.
func (r *release) writeBOMs() error {
	for _, p := range platforms {
		info, err := buildinfo.ReadFile(r.programs[p])
		if err != nil {
			return err
		}
		program, err := os.ReadFile(r.programs[p])
		if err != nil {
			return err
		}
		bom, err := billOfMaterials(info, sha256.Sum256(program), r.time)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("slidegate_%s_%s_%s.cdx.json", r.number(), p.os, p.arch)
		err = r.write(name, func(w io.Writer) error {
			return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, bomVersion)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// billOfMaterials describes a program: the modules, the standard library, and that the program depends on all of them.
func billOfMaterials(info *debug.BuildInfo, sum [sha256.Size]byte, at time.Time) (*cyclonedx.BOM, error) {
	program, err := component(&info.Main)
	if err != nil {
		return nil, err
	}
	program.Type = cyclonedx.ComponentTypeApplication
	program.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	program.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}
	modules := append([]*debug.Module{{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}}, info.Deps...)
	var components []cyclonedx.Component
	needs := cyclonedx.Dependency{Ref: program.BOMRef, Dependencies: &[]string{}}
	for _, module := range modules {
		c, err := component(module)
		if err != nil {
			return nil, err
		}
		components = append(components, c)
		*needs.Dependencies = append(*needs.Dependencies, c.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: at.Format(time.RFC3339), Component: &program}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{needs}
	return bom, nil
}

// component describes a module. Its hash is that of go.sum.
func component(module *debug.Module) (cyclonedx.Component, error) {
	if module.Replace != nil {
		return cyclonedx.Component{}, fmt.Errorf("%s is replaced; a release must not replace modules", module.Path)
	}
	// A package URL has small letters only, and + stands for a space in some URLs.
	url := "pkg:golang/" + strings.ToLower(module.Path) + "@" + strings.ReplaceAll(module.Version, "+", "%2B")
	c := cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: module.Path, Version: module.Version, PackageURL: url}
	if encoded, ok := strings.CutPrefix(module.Sum, "h1:"); ok {
		sum, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return c, fmt.Errorf("%s: %w", module.Path, err)
		}
		c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	}
	return c, nil
}
