// Command page bundles the scripts and styles of the operators' page into the two files that the program embeds.
//
//	page -root ..
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
)

// folder is the page's place in the repository.
const folder = "cmd/slidegate/internal/listener/page"

func main() {
	root := flag.String("root", "..", "the repository")
	flag.Parse()
	if err := write(*root); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

func write(root string) error {
	files, err := bundle(root)
	for name, content := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(root, folder, "built", name), content, 0o644))
	}
	return err
}

// bundle returns the built files by name.
func bundle(root string) (map[string][]byte, error) {
	from, err := filepath.Abs(filepath.Join(root, folder))
	if err != nil {
		return nil, err
	}
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: from,
		EntryPoints:   []string{"src/page.js", "src/page.css"},
		Outdir:        "built",
		Bundle:        true,
		Format:        api.FormatESModule,
		Target:        api.ES2022,
		Charset:       api.CharsetUTF8,
		LegalComments: api.LegalCommentsInline,
		MinifySyntax:  true, MinifyWhitespace: true, MinifyIdentifiers: true,
	})
	if len(result.Errors) > 0 {
		texts := api.FormatMessages(result.Errors, api.FormatMessagesOptions{})
		return nil, errors.New(texts[0])
	}
	files := map[string][]byte{}
	for _, file := range result.OutputFiles {
		files[filepath.Base(file.Path)] = file.Contents
	}
	return files, nil
}
