/** Saves a file. CSV gets a mark that it is UTF-8, without which Excel misreads every letter beyond ASCII. */
export function downloadFile(name: string, blob: Blob): void {
  const marked = blob.type.startsWith('text/csv') ? new Blob(['\ufeff', blob], { type: blob.type }) : blob;
  const address = URL.createObjectURL(marked);
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
}
