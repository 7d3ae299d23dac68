module tidegate.io/tools/image

go 1.21
