import { useState } from 'react';
import type { Query } from '../api/client.ts';
import { type ApiError, fileOf } from '../api/error.ts';
import { useApi } from '../api/hooks.ts';
import { downloadFile } from '../format/download.ts';
import { Button, type ButtonProps } from './button.tsx';
import { useToast } from './toast.tsx';

type DownloadButtonProps = Omit<ButtonProps, 'icon' | 'pending' | 'onClick'> & {
  /** The path below `/api/v1`. */
  path: string;
  query: Query;
  fileName: string;
};

/** Downloads a file from the API. A plain link could not, since the token is sent in a header. */
export function DownloadButton({ path, query, fileName, ...rest }: DownloadButtonProps) {
  const api = useApi();
  const toast = useToast();
  const [pending, setPending] = useState(false);
  const download = async () => {
    setPending(true);
    try {
      const response = await api.fetch(`/api/v1${path}`, { query });
      downloadFile(fileName, await fileOf(response));
    } catch (error) {
      toast.complain(error as ApiError);
    } finally {
      setPending(false);
    }
  };
  return <Button {...rest} icon="download" pending={pending} onClick={() => void download()} />;
}
