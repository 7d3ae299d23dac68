// image writes a container image of one static binary to standard output:
//
//	image -binary FILE -name NAME[:TAG]... [-label KEY=VALUE]... > image.tar
//
// The archive is an OCI layout with the manifest of `docker save` beside it, so that `ctr images import` and
// `docker load` both take it. Nothing in it depends on when or where it was made.
package main

import (
	"bufio"
	"debug/elf"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
)

type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("image: ")
	var names, labels list
	binary := flag.String("binary", "", "the static `FILE` that the image runs")
	flag.Var(&names, "name", "a `NAME` of the image, with its tag; may be given again")
	flag.Var(&labels, "label", "a label, `KEY=VALUE`; may be given again")
	flag.Parse()
	if *binary == "" || len(names) == 0 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	image, err := read(*binary, names, labels)
	if err != nil {
		log.Fatal(err)
	}
	out := bufio.NewWriter(os.Stdout)
	if err := image.write(out); err != nil {
		log.Fatal(err)
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

func read(path string, names, labels list) (*image, error) {
	architecture, err := architecture(path)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	made := &image{
		program: filepath.Base(path), content: content, architecture: architecture,
		names: names, labels: map[string]string{},
	}
	for _, label := range labels {
		key, value, ok := strings.Cut(label, "=")
		if !ok {
			return nil, fmt.Errorf("label %q has no value", label)
		}
		made.labels[key] = value
	}
	return made, nil
}

// architecture tells what the binary runs on, and refuses one that would not start in an image without libraries.
func architecture(path string) (string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	defer file.Close()
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			return "", fmt.Errorf("%s is linked dynamically: the image has no libraries", path)
		}
	}
	switch file.Machine {
	case elf.EM_X86_64:
		return "amd64", nil
	case elf.EM_AARCH64:
		return "arm64", nil
	}
	return "", fmt.Errorf("%s: no image for %s", path, file.Machine)
}
