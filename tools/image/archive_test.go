package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"testing"
)

func TestNamesAreWhatContainerdLooksUp(t *testing.T) {
	for name, expected := range map[string]string{
		"tidegate:1":               "docker.io/library/tidegate:1",
		"local/pause:1":            "docker.io/local/pause:1",
		"localhost/tidegate:1":     "localhost/tidegate:1",
		"registry:5000/tidegate:1": "registry:5000/tidegate:1",
		"example.com/a/b:1":        "example.com/a/b:1",
	} {
		if found := whole(name); found != expected {
			t.Errorf("%s: %s, not %s", name, found, expected)
		}
	}
}

func TestEveryDigestIsThatOfItsBlobAndBytesAreTheSameEachTime(t *testing.T) {
	made := &image{
		program: "program", content: []byte("content"), architecture: "amd64",
		names: []string{"a:1", "b:2"}, labels: map[string]string{"x": "1", "y": "2", "z": "3"},
	}
	var first, second bytes.Buffer
	for _, out := range []io.Writer{&first, &second} {
		if err := made.write(out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two writings differ")
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(&first); ; {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name], _ = io.ReadAll(archive)
	}
	blobs := 0
	for name, content := range files {
		if found := newBlob(content).path(); len(name) > 6 && name[:6] == "blobs/" {
			blobs++
			if found != name {
				t.Errorf("%s is %s", name, found)
			}
		}
	}
	if blobs != 3 {
		t.Errorf("%d blobs, not 3", blobs)
	}
	var docker []struct {
		Config   string
		Layers   []string
		RepoTags []string
	}
	if err := json.Unmarshal(files["manifest.json"], &docker); err != nil {
		t.Fatal(err)
	}
	if files[docker[0].Config] == nil || files[docker[0].Layers[0]] == nil || len(docker[0].RepoTags) != 2 {
		t.Errorf("docker would not find %+v", docker)
	}
}
