package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"
	"time"
)

// Who the program is, if nobody says otherwise: a user that owns nothing.
const user = "65532:65532"

type image struct {
	program      string
	content      []byte
	architecture string
	names        []string
	labels       map[string]string
}

// A blob is known by its digest, and lies where an OCI layout keeps it.
type blob struct {
	bytes  []byte
	digest string
}

func newBlob(bytes []byte) blob {
	sum := sha256.Sum256(bytes)
	return blob{bytes, "sha256:" + hex.EncodeToString(sum[:])}
}

func (b blob) path() string { return "blobs/" + strings.Replace(b.digest, ":", "/", 1) }

func (b blob) descriptor(media string) map[string]any {
	return map[string]any{"mediaType": media, "digest": b.digest, "size": len(b.bytes)}
}

const media = "application/vnd.oci.image."

func (i *image) write(out io.Writer) error {
	layer, err := i.layer()
	if err != nil {
		return err
	}
	config := encoded(map[string]any{
		"architecture": i.architecture,
		"os":           "linux",
		"created":      "1970-01-01T00:00:00Z",
		"config": map[string]any{
			"User": user, "Entrypoint": []string{"/" + i.program}, "Env": []string{"PATH=/"}, "Labels": i.labels,
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layer.digest}},
	})
	manifest := encoded(map[string]any{
		"schemaVersion": 2,
		"mediaType":     media + "manifest.v1+json",
		"config":        config.descriptor(media + "config.v1+json"),
		"layers":        []any{layer.descriptor(media + "layer.v1.tar")},
	})
	var named []any
	for _, name := range i.names {
		entry := manifest.descriptor(media + "manifest.v1+json")
		entry["annotations"] = map[string]string{
			"io.containerd.image.name":          whole(name),
			"org.opencontainers.image.ref.name": name[strings.LastIndex(name, ":")+1:],
		}
		entry["platform"] = map[string]string{"architecture": i.architecture, "os": "linux"}
		named = append(named, entry)
	}
	index := encoded(map[string]any{"schemaVersion": 2, "mediaType": media + "index.v1+json", "manifests": named})
	docker := encoded([]any{map[string]any{"Config": config.path(), "RepoTags": i.names, "Layers": []string{layer.path()}}})

	archive := tar.NewWriter(out)
	for _, file := range []struct {
		name    string
		content []byte
	}{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{"index.json", index.bytes},
		{"manifest.json", docker.bytes},
		{config.path(), config.bytes},
		{manifest.path(), manifest.bytes},
		{layer.path(), layer.bytes},
	} {
		if err := add(archive, file.name, 0o644, file.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// whole is a name as containerd looks it up: with the host and folder that a short one leaves out.
func whole(name string) string {
	host, rest, cut := strings.Cut(name, "/")
	switch {
	case !cut:
		return "docker.io/library/" + name
	case host != "localhost" && !strings.ContainsAny(host, ".:"):
		return "docker.io/" + host + "/" + rest
	}
	return name
}

// layer is the file system: the program, names for its user, and a folder for what is passing.
func (i *image) layer() (blob, error) {
	var bytes bytes.Buffer
	files := tar.NewWriter(&bytes)
	for _, folder := range []struct {
		name string
		mode int64
	}{{"etc/", 0o755}, {"tmp/", 0o1777}} {
		header := &tar.Header{Typeflag: tar.TypeDir, Name: folder.name, Mode: folder.mode, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if err := files.WriteHeader(header); err != nil {
			return blob{}, err
		}
	}
	for _, file := range []struct {
		name    string
		mode    int64
		content []byte
	}{
		{"etc/group", 0o644, []byte("root:x:0:\nnonroot:x:65532:\n")},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/none\nnonroot:x:65532:65532:nonroot:/tmp:/none\n")},
		{i.program, 0o755, i.content},
	} {
		if err := add(files, file.name, file.mode, file.content); err != nil {
			return blob{}, err
		}
	}
	err := files.Close()
	return newBlob(bytes.Bytes()), err
}

func add(archive *tar.Writer, name string, mode int64, content []byte) error {
	header := &tar.Header{Name: name, Mode: mode, Size: int64(len(content)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}

// encoded is a value as JSON; maps are written in the order of their keys.
func encoded(value any) blob {
	bytes, err := json.Marshal(value)
	if err != nil {
		panic(err) // strings, numbers, lists and maps of them always can be
	}
	return newBlob(bytes)
}
